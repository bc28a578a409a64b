"""Themes: the colours of the screen by role. Each theme that ships is a TOML file here."""
