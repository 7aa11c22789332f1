from django.urls import path

from harness_site.sessions.costs.views import show_costs
from harness_site.sessions.subagent_tree.views import show_tree
from harness_site.sessions.timeline import views
from harness_site.sessions.touched_files.views import show_touched_files
from harness_site.sessions.views import (
    edit_session_labels,
    fork_session,
    message_media,
    quarantine_release,
    session_and_list_exports,
    session_call_list_and_call_page,
    session_history_page,
    session_list,
    session_plan,
    session_workflows_and_agent_calls,
    transcript_jump,
    transcript_pages,
    version_list_and_comparison,
)

app_name = "harness_sessions"
urlpatterns = [
    path("", session_list.list_sessions, name="sessions"),
    path("export/", session_and_list_exports.export_session_list, name="sessions-export"),
    path("labels/", edit_session_labels.edit_labels_of_sessions, name="session-labels"),
    path("find/", session_list.redirect_to_session_by_id, name="session-find"),
    path("<int:pk>/", transcript_pages.show_transcript, name="session"),
    path("<int:pk>/messages/<int:position>/", transcript_pages.show_message, name="session-message"),
    path(
        "<int:pk>/messages/<int:position>/images/<int:index>/", message_media.serve_message_image, name="session-image"
    ),
    path(
        "<int:pk>/messages/<int:position>/audio/<int:index>/", message_media.serve_message_audio, name="session-audio"
    ),
    path("<int:pk>/jump/", transcript_jump.jump_to_position, name="session-jump"),
    path("<int:pk>/export/<str:form>/", session_and_list_exports.export_session, name="session-export"),
    path("<int:pk>/versions/", version_list_and_comparison.list_versions, name="versions"),
    path("<int:pk>/fork/", fork_session.show_or_create_fork, name="session-fork"),
    path("<int:pk>/quarantine/", quarantine_release.show_or_release_quarantine, name="session-quarantine"),
    path("<int:pk>/compare/", version_list_and_comparison.show_version_comparison, name="compare"),
    path("<int:pk>/calls/", session_call_list_and_call_page.list_session_calls, name="calls"),
    path("<int:pk>/calls/<int:call_pk>/", session_call_list_and_call_page.show_call, name="session-call"),
    path("<int:pk>/timeline/", views.show_timeline, name="session-timeline"),
    path("<int:pk>/workflows/", session_workflows_and_agent_calls.list_workflows, name="session-workflows"),
    path("<int:pk>/peers/", session_workflows_and_agent_calls.list_calls_to_other_agents, name="session-peers"),
    path("<int:pk>/files/", show_touched_files, name="session-files"),
    path("<int:pk>/costs/", show_costs, name="session-costs"),
    path("<int:pk>/subagents/", show_tree, name="session-subagents"),
    path("<int:pk>/plan/", session_plan.show_plan, name="plan"),
    path("<int:pk>/history/", session_history_page.show_session_history, name="session-audit"),
]
