"""Print as JSON what the system checks report when one part of the clinic is left out: `python -m …clinic.checks`."""

import json
from collections.abc import Iterator
from typing import Any, Final

import django

#: A folder with a template that is called like one of the site.
FRONT: Final = "tests/integration/embedding/clinic/templates"


class OtherDatabase:
    """A router that keeps the models of one app in another database."""

    def __init__(self, label: str) -> None:
        self._label = label

    def db_for_read(self, model: type[Any], **hints: Any) -> str | None:
        return "other" if model._meta.app_label == self._label else None

    db_for_write = db_for_read


def main() -> None:
    django.setup()
    print(json.dumps({name: found(change) for name, change in changes()}))


def found(changed: dict[str, Any]) -> list[str]:
    """The ids of what the checks say under changed settings; those that are None are left out."""
    from django.conf import settings
    from django.core import checks
    from django.test import override_settings

    with override_settings(**{name: value for name, value in changed.items() if value is not None}):
        for name in (name for name, value in changed.items() if value is None):
            delattr(settings, name)
        return sorted({str(message.id) for message in checks.run_checks(tags=["harness"])})


def changes() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each part by a name, with the settings that lack it."""
    from django.conf import settings as present

    engine: dict[str, Any] = present.TEMPLATES[0]
    options: dict[str, Any] = engine["OPTIONS"]
    yield "nothing", {}
    for app in ("harness_site.saved_views", "allauth.usersessions"):
        yield app, {"INSTALLED_APPS": [name for name in present.INSTALLED_APPS if name != app]}
    for one in present.HARNESS_MIDDLEWARE:
        yield one, {"MIDDLEWARE": [name for name in present.HARNESS_MIDDLEWARE if name != one]}
    yield (
        "middleware in another order",
        {"MIDDLEWARE": [*present.HARNESS_MIDDLEWARE[1:], present.HARNESS_MIDDLEWARE[0]]},
    )
    for name in ("SITE_ADDRESS", "MAIL_FROM", "MAIL_SERVER", "EVIDENCE_BYTES", "WEBHOOK_HOSTS", "BEHIND_PROXY"):
        yield name, {name: None}
    for name in ("SERVER_LIMITS", "API_REQUESTS_PER_MINUTE", "ACCOUNT_FORMS", "MFA_FORMS"):
        yield name, {name: None}
    yield "CHANNEL_LAYERS", {"CHANNEL_LAYERS": {}}
    for name in ("ACCOUNT_ADAPTER", "MFA_ADAPTER", "SOCIALACCOUNT_ADAPTER"):
        yield name, {name: "allauth.account.adapter.DefaultAccountAdapter"}
    yield "AUTH_USER_MODEL", {"AUTH_USER_MODEL": "accounts.Patient"}
    yield "AUTHENTICATION_BACKENDS", {"AUTHENTICATION_BACKENDS": ["django.contrib.auth.backends.ModelBackend"]}
    yield "SESSION_ENGINE", {"SESSION_ENGINE": "django.contrib.sessions.backends.signed_cookies"}
    yield "ROOT_URLCONF", {"ROOT_URLCONF": "tests.integration.embedding.clinic.no_pages"}
    yield "another sign-in", {"ROOT_URLCONF": "tests.integration.embedding.clinic.own_sign_in"}
    yield "template backend", {"TEMPLATES": [{**engine, "BACKEND": "django.template.backends.django.DjangoTemplates"}]}
    yield "builtins", {"TEMPLATES": [{**engine, "OPTIONS": {**options, "builtins": []}}]}
    yield "context processors", {"TEMPLATES": [{**engine, "OPTIONS": {**options, "context_processors": []}}]}
    yield "a template of the same name", {"TEMPLATES": [{**engine, "DIRS": [FRONT, *engine["DIRS"]]}]}
    yield "STATICFILES_DIRS", {"STATICFILES_DIRS": []}
    yield "WHITENOISE_USE_FINDERS", {"WHITENOISE_USE_FINDERS": False}
    for name, label in (("agents elsewhere", "checkpoints"), ("accounts elsewhere", "auth")):
        yield name, {"DATABASE_ROUTERS": [OtherDatabase(label)]}
    yield "ASGI_APPLICATION", {"ASGI_APPLICATION": None}
    yield "default cache", {"CACHES": {}}
    yield "CACHES", {"CACHES": {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}}


if __name__ == "__main__":
    main()
