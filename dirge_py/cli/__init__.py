"""The command line: flags, subcommands, and which front end they start."""
