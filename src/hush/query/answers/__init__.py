"""Questions over answers: tables computed from released answers alone, without reading a row of the data.

`tree` is the question, `plan` its price, `windows` what is computed across rows; `hush.curator.composed` computes the
table. SQL is read into the tree by `hush.query.sql.select`.
"""
