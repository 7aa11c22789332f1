from harness_site.review.models.claim import Claim
from harness_site.review.models.evidence_file import EvidenceFile
from harness_site.review.models.presence import Presence

__all__ = ["Claim", "EvidenceFile", "Presence"]
