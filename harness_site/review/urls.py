from django.urls import path

from harness_site.review import evidence_files
from harness_site.review.views import (
    browser_notifications,
    calls_awaiting_same_approval,
    calls_interrupted_by_outage,
    claims_comments_and_presence,
    decision_card,
    queue,
    recorded_bulk_decision_page,
)

app_name = "harness_review"
urlpatterns = [
    path("", queue.interrupt_lost_calls_and_show_queue, name="review"),
    path("news/", browser_notifications.list_browser_notifications, name="review-news"),
    path("count/", queue.show_queue_count, name="review-count"),
    path("evidence/<int:pk>/", evidence_files.download_evidence_file, name="evidence"),
    path("outages/", calls_interrupted_by_outage.show_outage, name="outage"),
    path("outages/verify/", calls_interrupted_by_outage.request_verifications, name="outage-verify"),
    path("outages/settle/", calls_interrupted_by_outage.decide_calls_by_late_results, name="outage-settle"),
    path("outages/decide/", calls_interrupted_by_outage.decide_calls_by_form_answers, name="outage-decide"),
    path("approvals/", calls_awaiting_same_approval.show_or_decide_calls_awaiting_same_approval, name="same-approvals"),
    path("bulk/<int:pk>/", recorded_bulk_decision_page.show_or_withdraw_bulk_decision, name="bulk-decision"),
    path("calls/<int:pk>/", decision_card.show_card_or_record_decision, name="card"),
    path("calls/<int:pk>/claim/", claims_comments_and_presence.claim_call, name="claim"),
    path("calls/<int:pk>/release/", claims_comments_and_presence.release_claim_on_call, name="release"),
    path("calls/<int:pk>/comment/", claims_comments_and_presence.comment_on_call, name="comment"),
    path("calls/<int:pk>/hand-over/", claims_comments_and_presence.hand_over_call, name="hand-over"),
    path("calls/<int:pk>/withdraw/", decision_card.withdraw_decision, name="withdraw"),
    path("calls/<int:pk>/present/", claims_comments_and_presence.record_presence_and_show_people, name="present"),
    path("calls/<int:pk>/change/", decision_card.preview_argument_change, name="change"),
    path("calls/<int:pk>/restore/", decision_card.restore_arguments, name="restore"),
    path("calls/<int:pk>/verify/", decision_card.request_verification, name="verify"),
]
