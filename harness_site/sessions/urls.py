from django.urls import path

from harness_site.sessions import (
    changes,
    exports,
    forking,
    journals,
    jumping,
    labelling,
    listing,
    records,
    timeline,
    transcript,
)

urlpatterns = [
    path("", listing.listing, name="sessions"),
    path("export/", exports.listed, name="sessions-export"),
    path("labels/", labelling.labels, name="session-labels"),
    path("find/", listing.find, name="session-find"),
    path("<int:pk>/", transcript.session, name="session"),
    path("<int:pk>/messages/<int:position>/", transcript.message, name="session-message"),
    path("<int:pk>/messages/<int:position>/images/<int:index>/", transcript.image, name="session-image"),
    path("<int:pk>/jump/", jumping.jump, name="session-jump"),
    path("<int:pk>/export/<str:form>/", exports.session, name="session-export"),
    path("<int:pk>/versions/", changes.versions, name="versions"),
    path("<int:pk>/fork/", forking.fork, name="session-fork"),
    path("<int:pk>/compare/", changes.compare, name="compare"),
    path("<int:pk>/calls/", records.calls, name="calls"),
    path("<int:pk>/calls/<int:call_pk>/", records.call, name="session-call"),
    path("<int:pk>/timeline/", timeline.timeline, name="session-timeline"),
    path("<int:pk>/workflows/", journals.workflows, name="session-workflows"),
    path("<int:pk>/peers/", journals.peers, name="session-peers"),
    path("<int:pk>/plan/", records.plan, name="plan"),
    path("<int:pk>/history/", records.audit, name="session-audit"),
]
