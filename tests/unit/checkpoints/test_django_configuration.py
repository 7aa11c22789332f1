"""Configuration of Django for programs, and its refusal in a project without the app."""

import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

from checkpoints.django_configuration import ensure_django_configured


def test_project_without_the_app_is_told_to_add_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_django_configured()
    monkeypatch.setattr(apps, "is_installed", lambda name: name != "checkpoints")
    with pytest.raises(ImproperlyConfigured, match='Add "checkpoints" to INSTALLED_APPS'):
        ensure_django_configured()
