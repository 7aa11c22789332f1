from django.urls import path

from tests.integration.embedding.shop import views

urlpatterns = [
    path("charge/<int:order>/", views.charge),
    path("charge-and-answer/<int:order>/", views.charge_and_answer),
    path("charge-outside/<int:order>/", views.charge_outside),
    path("charge-beside/<int:order>/", views.charge_beside),
]
