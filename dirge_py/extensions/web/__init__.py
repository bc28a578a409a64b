"""Web access: the tools `web_fetch` and `web_search`, and the settings they follow."""
