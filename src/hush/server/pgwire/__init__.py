r"""PostgreSQL's wire protocol, so that psql, DBeaver, Metabase, pandas and Excel can ask.

::

    client ─► server (TLS, sign-in) ─► connection (messages in, messages out) ─► Service
                                              ├─ setting     SET hush.epsilon = '0.1'
                                              ├─ catalogue   \d, information_schema: the schema, never data
                                              └─ question    everything else, at the price that was set

*   `messages`: the bytes of version 3.0 of the protocol, both ways;
*   `connection`: the simple and the extended query protocol, transactions that mean nothing, errors;
*   `statements`: texts taken apart: several in one, first words, comments, cursors; price and confidence, set by SET or
    in a comment (``/* hush.epsilon = 0.1 */ SELECT …``); types of parameters that a client leaves open;
*   `catalogue`: tables of the system catalogue, made of the schema in a database of its own, which holds no data: their
    columns stand in ``catalogue.tsv``, their rows in ``rows.sql``, PostgreSQL's functions in ``functions.sql``;
*   `types`: PostgreSQL's types, in ``types.tsv``;
*   `server`: the socket, TLS, tokens as passwords.

A question here goes the way of every question of the service: the same queue, slots, charges, texts.

The protocol is PostgreSQL's, documented in "Frontend/Backend Protocol" of its manual. No library that keeps
authentication, TLS and every byte of an error ours was found well kept, and what is needed is small.
"""
