"""The files of a project as they were: kept in a git repository of our own, beside the sessions."""
