"""Who may use the service, and how they prove who they are.

*   `people`: the store of people with their roles, tokens, sessions and one-time links;
*   `credentials`: passwords (slow hashes), and codes of an authenticator app; `oidc`: sign-in at an OpenID provider;
*   `sessions`: from a request's token or cookie to a person, the cookies, and requests that another site made a browser
    send, which are refused.
"""
