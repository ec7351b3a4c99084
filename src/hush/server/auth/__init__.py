"""Who may use the service, and how they prove who they are.

*   `people`: the store of people with their roles, tokens, sessions and one-time links;
*   `passwords` (slow hashes), `totp` (codes of an authenticator app), `oidc` (sign-in at an OpenID provider);
*   `sessions`: from a request's token or cookie to a person, and the cookies themselves;
*   `csrf`: refuses requests that another site made a browser send.
"""
