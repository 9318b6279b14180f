"""Tools for people who change glace."""
