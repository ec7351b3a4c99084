"""Questions over answers: tables computed from released answers alone, without reading a row of the data.

`tree` is the question, `plan` its price, `evaluate` its values and their half-widths, `windows` what is computed across
rows. SQL is read into the tree by `hush.query.sql.select`.
"""
