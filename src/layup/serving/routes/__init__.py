"""The paths of the API, by what they are for."""

from layup.serving.routes import asking, files, health, label_studio, model, teaching

ROUTERS = (asking.router, teaching.router, model.router, health.router, label_studio.router, files.router)
"""All of them."""
