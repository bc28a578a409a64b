"""The context of model calls: system prompt, attachments, and how history is shortened."""
