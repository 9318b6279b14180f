"""The fitted model: what training makes and every question is asked of."""
