"""Every option, declared once; free of torch."""
