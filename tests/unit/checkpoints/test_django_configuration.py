"""Configuration of Django for programs, and its refusal in a project without the app."""

import os
import subprocess
import sys

import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

from checkpoints.django_configuration import ensure_django_configured


def test_project_without_the_app_is_told_to_add_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_django_configured()
    monkeypatch.setattr(apps, "is_installed", lambda name: name != "checkpoints")
    with pytest.raises(ImproperlyConfigured, match='Add "checkpoints" to INSTALLED_APPS'):
        ensure_django_configured()


def test_program_may_begin_with_the_models_that_models_of_other_apps_import() -> None:
    program = """
from checkpoints.models import Session
from django.apps import apps
print(apps.get_model("checkpoints", "Session") is Session)
"""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "harness_site.settings"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")
