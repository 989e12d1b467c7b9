"""Train an encoder: settings, steps of windows and questions, losses, stages."""
