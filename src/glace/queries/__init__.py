"""Answers from Gaussians: neighbours, scores, missing links, certainty, novelty."""
