"""The sections of a report, one module per table or figure of the paper."""
