"""One click command a file: arguments in, one call, a report out. Nothing imports this room."""
