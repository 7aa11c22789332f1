from django.urls import path

from harness_site.review import card, evidence, news, outage, people, queue

urlpatterns = [
    path("", queue.queue, name="review"),
    path("news/", news.news, name="review-news"),
    path("count/", queue.count, name="review-count"),
    path("evidence/<int:pk>/", evidence.evidence, name="evidence"),
    path("outages/", outage.outage, name="outage"),
    path("outages/verify/", outage.verify, name="outage-verify"),
    path("outages/settle/", outage.settle, name="outage-settle"),
    path("calls/<int:pk>/", card.card, name="card"),
    path("calls/<int:pk>/claim/", people.claim, name="claim"),
    path("calls/<int:pk>/release/", people.release, name="release"),
    path("calls/<int:pk>/present/", people.present, name="present"),
    path("calls/<int:pk>/change/", card.change, name="change"),
    path("calls/<int:pk>/verify/", card.verify, name="verify"),
]
