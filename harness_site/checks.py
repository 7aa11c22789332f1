"""System checks for unsafe settings, and for missing parts in a project that includes the site."""

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from allauth.account.auth_backends import AuthenticationBackend
from django.apps import AppConfig, apps
from django.conf import settings
from django.contrib.auth import get_backends
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage, staticfiles_storage
from django.core.cache import DEFAULT_CACHE_ALIAS, caches
from django.core.cache.backends.db import BaseDatabaseCache
from django.core.cache.backends.dummy import DummyCache
from django.core.cache.backends.locmem import LocMemCache
from django.core.checks import CheckMessage, Error, Warning, register
from django.db import DEFAULT_DB_ALIAS, router
from django.template import Engine, TemplateDoesNotExist, engines
from django.urls import NoReverseMatch, reverse

from harness_site import base_settings, env
from harness_site.core import hidden_character_template_backend

_JSON = "django.contrib.sessions.serializers.JSONSerializer"
_HINT = "Whoever can write to the database, an agent for example, could run code in this process."


@register("harness")
def check_no_pickled_caches_and_sessions(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    """Refuse caches and sessions that would unpickle values from a database."""
    problems: list[CheckMessage] = [
        Error(f"The cache {alias!r} stores pickles in a database.", hint=_HINT, id="harness.E001")
        for alias in settings.CACHES
        if isinstance(caches[alias], BaseDatabaseCache)
    ]
    if settings.SESSION_SERIALIZER != _JSON:
        problems.append(Error("Sessions are not stored as JSON.", hint=_HINT, id="harness.E002"))
    return problems


_EMBEDDING: Final = "See “The site in a project” in docs/embedding.md."
#: Settings of the site's sign-in.
_SIGN_IN: Final = ("ACCOUNT_ADAPTER", "MFA_ADAPTER", "SOCIALACCOUNT_ADAPTER")
#: Settings that the pages and their sign-in read: those of `harness_site.base_settings`, and two without a default.
_NEEDED: Final = (
    "MAIL_FROM",
    "SITE_ADDRESS",
    *(
        name
        for name in vars(base_settings)
        if name.isupper() and not name.startswith("HARNESS_") and name not in _SIGN_IN
    ),
)
#: Apps of Django with whose tables those of the site are joined.
_ACCOUNT_APPS: Final = ("django.contrib.auth", "django.contrib.sessions")
_PACKAGE: Final = Path(__file__).resolve().parent


@register("harness")
def check_required_settings(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    """Report each app, middleware and setting of `harness_site.base_settings` that the project lacks."""
    problems: list[CheckMessage] = [
        Error(f"The app {name!r} is not installed.", hint=f"Add HARNESS_APPS. {_EMBEDDING}", id="harness.E003")
        for name in base_settings.HARNESS_APPS
        if not apps.is_installed(name)
    ]
    problems += [
        Error(f"The middleware {name!r} is missing.", hint=f"Add HARNESS_MIDDLEWARE. {_EMBEDDING}", id="harness.E004")
        for name in base_settings.HARNESS_MIDDLEWARE
        if name not in settings.MIDDLEWARE
    ]
    problems += [
        Warning(
            f"The middleware {name!r} comes after {later!r}.",
            hint=f"Keep the order of HARNESS_MIDDLEWARE. {_EMBEDDING}",
            id="harness.W004",
        )
        for name, later in pairwise(base_settings.HARNESS_MIDDLEWARE)
        if _comes_after(settings.MIDDLEWARE, name, later)
    ]
    problems += [
        Error(
            f"The setting {name} is missing.",
            hint=f"Begin with `from harness_site.base_settings import *`, or set it. {_EMBEDDING}",
            id="harness.E005",
        )
        for name in _NEEDED
        if not hasattr(settings, name)
    ]
    if DEFAULT_CACHE_ALIAS not in settings.CACHES:
        problems.append(Error("There is no default cache.", hint=f"Set CACHES. {_EMBEDDING}", id="harness.E005"))
    if "default" not in getattr(settings, "CHANNEL_LAYERS", {}):
        hint = f"Set CHANNEL_LAYERS. {_EMBEDDING}"
        problems.append(Error("Channels has no default layer.", hint=hint, id="harness.E005"))
    return problems


@register("harness")
def check_sign_in_settings(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    """Refuse a sign-in other than the site's own: roles, second factors and the audit trail depend on it."""
    problems: list[CheckMessage] = []
    if settings.AUTH_USER_MODEL != "auth.User":
        hint = f"Serve the site by itself, with a database of its own that this project opens by URL. {_EMBEDDING}"
        message = f"People are kept in {settings.AUTH_USER_MODEL}; the site needs auth.User."
        problems.append(Error(message, hint=hint, id="harness.E006"))
    problems += [
        Error(f"{name} is not the site's.", hint=f"Import harness_site.base_settings. {_EMBEDDING}", id="harness.E007")
        for name in _SIGN_IN
        if getattr(settings, name, None) != getattr(base_settings, name)
    ]
    if not any(isinstance(backend, AuthenticationBackend) for backend in get_backends()):
        hint = "Add allauth.account.auth_backends.AuthenticationBackend to AUTHENTICATION_BACKENDS."
        problems.append(Error("No authentication backend is django-allauth's.", hint=hint, id="harness.E008"))
    if settings.SESSION_ENGINE.endswith("signed_cookies"):
        hint = "Use django.contrib.sessions.backends.db."
        problems.append(Error("Sign-ins that live in cookies cannot be ended.", hint=hint, id="harness.E009"))
    return problems


@register("harness")
def check_site_urls_included(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    """Check that the site's URLs are included, and that django-allauth reverses to them."""
    try:
        home, login = reverse("harness:home"), reverse("account_login")
    except NoReverseMatch:
        hint = 'Add path("harness/", include("harness_site.urls")).'
        return [Error("The pages of the site have no address.", hint=hint, id="harness.E010")]
    if login.startswith(home):
        return []
    hint = "Include the site after other URLs of django-allauth, or leave those out."
    return [Error(f"Sign-in leads to {login}, outside of the site.", hint=hint, id="harness.E011")]


@register("harness")
def check_models_in_default_database(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    """Report apps whose models a router keeps in another database than those of the site."""
    labels = {app.label for app in apps.get_app_configs() if app.name in (*base_settings.HARNESS_APPS, *_ACCOUNT_APPS)}
    elsewhere = {
        model._meta.app_label
        for label in labels
        for model in apps.get_app_config(label).get_models()
        if router.db_for_write(model) != DEFAULT_DB_ALIAS
    }
    hint = f"Leave the models of the site, the library and the accounts in the database {DEFAULT_DB_ALIAS!r}."
    return [
        Error(f"A router keeps the models of {label!r} in another database.", hint=hint, id="harness.E016")
        for label in sorted(elsewhere)
    ]


@register("harness")
def check_template_engine_and_shadowed_files(
    app_configs: Sequence[AppConfig] | None, **options: Any
) -> list[CheckMessage]:
    """Check the template engine, and that no template or style sheet of the site is shadowed."""
    site_engine = next(
        (
            engine_candidate
            for engine_candidate in engines.all()
            if isinstance(engine_candidate, hidden_character_template_backend.Templates)
        ),
        None,
    )
    if site_engine is None:
        hint = f"Use harness_site.core.hidden_character_template_backend.Templates as BACKEND. {_EMBEDDING}"
        return [Error("No template engine is the site's.", hint=hint, id="harness.E012")]
    engine: Engine = site_engine.engine
    missing_names = [name for name in base_settings.HARNESS_TEMPLATE_BUILTINS if name not in engine.builtins]
    missing_names += [
        name for name in base_settings.HARNESS_CONTEXT_PROCESSORS if name not in engine.context_processors
    ]
    problems: list[CheckMessage] = [
        Error(f"The template engine lacks {name!r}.", hint=_EMBEDDING, id="harness.E013") for name in missing_names
    ]
    problems += [
        Error(f"The template {name!r} is {origin}.", hint=hint, id="harness.E014")
        for name, origin, hint in _iterate_missing_or_shadowed_site_templates(engine)
    ]
    if finders.find("css/tokens.css") is None:
        hint = f"Set STATICFILES_DIRS to HARNESS_STATIC_DIRS. {_EMBEDDING}"
        problems.append(Error("The style sheets of the site are not found.", hint=hint, id="harness.E015"))
    return problems


@register("harness")
def check_protective_settings(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    """Warn about settings that reduce protection or disable live updates."""
    problems: list[CheckMessage] = []
    if not getattr(settings, "ASGI_APPLICATION", None):
        hint = f"Set it to an application like that of asgi.py on the page. {_EMBEDDING}"
        problems.append(
            Warning(
                "Without ASGI_APPLICATION open pages fetch changes only every five seconds.",
                hint=hint,
                id="harness.W002",
            )
        )
    if DEFAULT_CACHE_ALIAS in settings.CACHES and isinstance(caches[DEFAULT_CACHE_ALIAS], LocMemCache | DummyCache):
        hint = "Use harness_site.accounts.throttle_cache.ThrottleCache, or a cache that all processes share."
        problems.append(Warning("Each process counts attempts to sign in by itself.", hint=hint, id="harness.W003"))
    return problems


@register("harness")
def check_static_files_are_served(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    """Warn if pages would have no styles and scripts: without DEBUG, Django serves no static files.

    A storage that is not in the file system, or has a folder of its own, needs no `STATIC_ROOT`.
    """
    uses_finders = getattr(settings, "WHITENOISE_USE_FINDERS", False)
    is_without_folder = isinstance(staticfiles_storage, StaticFilesStorage) and not staticfiles_storage.base_location
    if settings.DEBUG or uses_finders or not is_without_folder:
        return []
    hint = (
        "Set WHITENOISE_USE_FINDERS = True and add whitenoise.middleware.WhiteNoiseMiddleware as the first middleware, "
        f"or set STATIC_ROOT and run collectstatic. {_EMBEDDING}"
    )
    return [Warning("Pages have no styles and scripts: nothing serves static files.", hint=hint, id="harness.W006")]


@register("harness")
def check_no_misspelt_variables(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    """Warn about environment variables that nothing reads, and whose names are like one that is read."""
    return [
        Warning(f"Nothing reads the environment variable {name}.", hint=f"Did you mean {meant}?", id="harness.W005")
        for name, meant in env.find_misspelt_variables(os.environ).items()
    ]


def _comes_after(names: Sequence[str], name: str, other: str) -> bool:
    """Return whether both names are in a sequence, and `name` comes after each place of `other`."""
    return name in names and other in names and other not in names[names.index(name) :]


def _iterate_missing_or_shadowed_site_templates(engine: Engine) -> Iterator[tuple[str, str, str]]:
    """Yield the templates of the site that the engine finds elsewhere or not at all, with a description and a hint."""
    folders = [*base_settings.HARNESS_TEMPLATE_DIRS, _PACKAGE / "templates"]
    for folder in folders:
        for path in sorted(Path(folder).rglob("*.html")):
            name = path.relative_to(folder).as_posix()
            origin = _find_template_origin(engine, name)
            if origin is None:
                yield name, "not found", f"Set DIRS to HARNESS_TEMPLATE_DIRS, and APP_DIRS. {_EMBEDDING}"
            elif Path(origin).resolve() != path.resolve():
                yield name, f"also {origin}, which comes first", "Give one of the two another name."


def _find_template_origin(engine: Engine, name: str) -> str | None:
    loaders: Any = engine.template_loaders
    for loader in loaders:
        for origin in loader.get_template_sources(name):
            try:
                loader.get_contents(origin)
            except TemplateDoesNotExist:
                continue
            return str(origin.name)
    return None
