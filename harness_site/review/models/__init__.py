from harness_site.review.models.bulk_decision import BulkDecision, BulkDecisionEntry
from harness_site.review.models.claim import Claim
from harness_site.review.models.comment import Comment
from harness_site.review.models.evidence_file import EvidenceFile
from harness_site.review.models.presence import Presence

__all__ = ["BulkDecision", "BulkDecisionEntry", "Claim", "Comment", "EvidenceFile", "Presence"]
