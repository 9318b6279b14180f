"""The sections of the report, one module a task: results in, a section out, or None if nothing was run."""
