"""Pictures and tables, drawn from results; nothing here runs an experiment."""
