"""The built-in tools: one module each, with a `.md` file of the description for the model."""
