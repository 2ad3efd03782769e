"""The paths of the API, by what they are for."""

from layup.serving.routes import asking, files, health, model, teaching

ROUTERS = (asking.router, teaching.router, model.router, health.router, files.router)
"""All of them."""
