"""Addresses of the conversations, below the `base_url` that a client of OpenAI's API is given: `/v1`."""

from django.urls import path

from harness_site.api.openai_conversations import serve_conversations, serve_item, serve_items, serve_one_conversation

app_name = "harness_conversations"

# The longest come first: an identifier may contain slashes.
urlpatterns = [
    path("conversations", serve_conversations, name="conversations"),
    path("conversations/<path:session_id>/items/<path:item_id>", serve_item, name="item"),
    path("conversations/<path:session_id>/items", serve_items, name="items"),
    path("conversations/<path:session_id>", serve_one_conversation, name="conversation"),
]
