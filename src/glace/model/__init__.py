"""From attributes to Gaussians: encoders, heads, the objective."""
