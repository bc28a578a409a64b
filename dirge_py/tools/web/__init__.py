"""Safe web access: addresses are checked, sizes are limited.

If something may not or cannot be fetched, or is not text, these modules raise ToolFailed with a
text for the model.
"""
