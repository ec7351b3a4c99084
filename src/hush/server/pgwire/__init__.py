r"""PostgreSQL's wire protocol, so that psql, DBeaver, Metabase, pandas and Excel can ask.

::

    client ─► server (TLS, sign-in) ─► connection (messages in, messages out) ─► Service
                                              ├─ setting     SET hush.epsilon = '0.1'
                                              ├─ catalogue   \d, information_schema: the schema, never data
                                              └─ question    everything else, at the price that was set

The tables of the catalogue have their columns in ``catalogue.tsv``, their rows in ``rows.sql`` and functions of
PostgreSQL in ``functions.sql``; types stand in ``types.tsv``.

A question here goes the way of every question of the service: the same queue, slots, charges, texts.

The protocol is PostgreSQL's, documented in "Frontend/Backend Protocol" of its manual. No library that keeps
authentication, TLS and every byte of an error ours was found well kept, and what is needed is small.
"""
