from django.contrib.auth.views import LoginView

from harness_site.accounts.forms import SignInForm

sign_in = LoginView.as_view(
    template_name="accounts/login.html", authentication_form=SignInForm, redirect_authenticated_user=True
)
