"""Files: written whole or not at all, checked when read, mapped where they are larger than memory."""
