"""Certificate authority for tests, and server certificates issued by it.

authority = Authority(folder)
authority.root                      # file for SSL_CERT_FILE of clients that trust the authority
authority.certificate("localhost")  # file with key and certificate for a server of that name
"""

from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY: Final = timedelta(days=1)


class Authority:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._numbers = folder, count()
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _build_common_name("Authority of a test")
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        key_usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        certificate = _build_certificate(self._name, self._name, self._key.public_key(), datetime.now(UTC) + _DAY)
        certificate = certificate.add_extension(constraints, critical=True).add_extension(key_usage, critical=True)
        certificate = certificate.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
        )
        self.root = folder / "root.pem"
        self.root.write_bytes(certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def certificate(self, host: str, *, expired: bool = False) -> Path:
        key = ec.generate_private_key(ec.SECP256R1())
        not_after = datetime.now(UTC) + (-_DAY if expired else _DAY)
        certificate = _build_certificate(_build_common_name(host), self._name, key.public_key(), not_after)
        certificate = certificate.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        signed = certificate.add_extension(issuer, critical=False).sign(self._key, hashes.SHA256())
        file = self._folder / f"{host}-{next(self._numbers)}.pem"
        encoding = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        file.write_bytes(key.private_bytes(*encoding) + signed.public_bytes(serialization.Encoding.PEM))
        return file


def _build_common_name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _build_certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, not_after: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    return (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(not_after - 9 * _DAY)
        .not_valid_after(not_after)
    )
