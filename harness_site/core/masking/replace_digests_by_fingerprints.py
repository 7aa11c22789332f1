"""Keyed fingerprints of digests, for URLs, forms and pages of readers who may not see secrets."""

from __future__ import annotations

from typing import Any

from django.utils.crypto import salted_hmac

from harness_site.core.masking.masker import is_masking_active


def compute_keyed_fingerprint_of_digest(digest: str) -> str:
    """Return a keyed fingerprint of a digest, which cannot be computed from guessed content."""
    return salted_hmac("harness.fingerprint", digest, algorithm="sha256").hexdigest()[:32]


def replace_digest_by_fingerprint_if_masking(digest: str) -> str:
    """Return the digest, or its fingerprint for a reader who may not see secrets.

    The digest of a short secret would reveal it to a guessing reader.
    """
    return compute_keyed_fingerprint_of_digest(digest) if is_masking_active() else digest


def replace_file_digests_by_keyed_fingerprints(content: Any) -> Any:
    """Replace the digests of files in a JSON value as `replace_digest_by_fingerprint_if_masking` does."""
    if not is_masking_active():
        return content
    if isinstance(content, dict):
        return {
            key: compute_keyed_fingerprint_of_digest(inner)
            if key == "sha256" and isinstance(inner, str)
            else replace_file_digests_by_keyed_fingerprints(inner)
            for key, inner in content.items()
        }
    return (
        [replace_file_digests_by_keyed_fingerprints(item) for item in content] if isinstance(content, list) else content
    )
