"""The methods GLACE is compared with, all behind one protocol."""
