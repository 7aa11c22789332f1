from django.urls import path

from harness_site.review import card, queue

urlpatterns = [
    path("", queue.queue, name="review"),
    path("count/", queue.count, name="review-count"),
    path("calls/<int:pk>/", card.card, name="card"),
    path("calls/<int:pk>/change/", card.change, name="change"),
    path("calls/<int:pk>/verify/", card.verify, name="verify"),
]
