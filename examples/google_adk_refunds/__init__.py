"""Agent of Google ADK that is killed inside a tool and continues: no network, no key. Needs the extra `google-adk`.

python -m examples.google_adk_refunds
"""
