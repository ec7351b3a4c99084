-- Functions of PostgreSQL that tools call in statements about the catalogue, as macros of the embedded engine.
pg_get_userbyid(x) AS 'hush'
pg_table_is_visible(x) AS true
pg_type_is_visible(x) AS true
pg_function_is_visible(x) AS true
pg_get_expr(x, y) AS NULL::VARCHAR, (x, y, z) AS NULL::VARCHAR
pg_get_constraintdef(x) AS NULL::VARCHAR, (x, y) AS NULL::VARCHAR
pg_get_indexdef(x) AS NULL::VARCHAR, (x, y, z) AS NULL::VARCHAR
pg_get_viewdef(x) AS NULL::VARCHAR, (x, y) AS NULL::VARCHAR
pg_get_partkeydef(x) AS NULL::VARCHAR
pg_get_statisticsobjdef_columns(x) AS NULL::VARCHAR
pg_get_serial_sequence(x, y) AS NULL::VARCHAR
pg_collation_is_visible(x) AS true
pg_relation_is_publishable(x) AS false
pg_relation_size(x) AS 0
pg_total_relation_size(x) AS 0
pg_table_size(x) AS 0
pg_database_size(x) AS 0
pg_tablespace_size(x) AS 0
pg_size_pretty(x) AS 'not told'
pg_tablespace_location(x) AS ''
pg_get_function_result(x) AS NULL::VARCHAR
pg_get_function_arguments(x) AS NULL::VARCHAR
pg_get_function_identity_arguments(x) AS NULL::VARCHAR
pg_conversion_is_visible(x) AS true
pg_operator_is_visible(x) AS true
pg_ts_config_is_visible(x) AS true
pg_char_to_encoding(x) AS 6
pg_encoding_to_char(x) AS 'UTF8'
pg_is_in_recovery() AS false
pg_partition_ancestors(x) AS x::BIGINT
pg_partition_root(x) AS x
pg_backend_pid() AS 1
obj_description(x) AS NULL::VARCHAR, (x, y) AS NULL::VARCHAR
col_description(x, y) AS NULL::VARCHAR
shobj_description(x, y) AS NULL::VARCHAR
format_type(x, y) AS (SELECT hush_shown FROM hush_types WHERE hush_type = x)
has_table_privilege(x, y) AS y ILIKE 'select', (x, y, z) AS z ILIKE 'select'
has_schema_privilege(x, y) AS y ILIKE 'usage', (x, y, z) AS z ILIKE 'usage'
has_database_privilege(x, y) AS y ILIKE 'connect', (x, y, z) AS z ILIKE 'connect'
has_column_privilege(x, y, z) AS z ILIKE 'select'
has_any_column_privilege(x, y) AS y ILIKE 'select', (x, y, z) AS z ILIKE 'select'
_pg_expandarray(x) AS {'x': NULL::BIGINT, 'n': NULL::BIGINT}
pg_get_keywords() AS TABLE SELECT unnest(['analyse', 'analyze', 'ilike', 'isnull', 'limit', 'notnull', 'offset', 'placing', 'returning', 'variadic']) AS word, 'R' AS catcode, 'reserved' AS catdesc
quote_ident(x) AS '"' || replace(x, '"', '""') || '"'
to_regclass(x) AS (SELECT hush_class FROM hush_classes WHERE hush_table = split_part(replace(x, '"', ''), '.', -1) LIMIT 1)
to_regtype(x) AS (SELECT hush_type FROM hush_types WHERE lower(x) IN (hush_short, hush_shown) LIMIT 1)
array_upper(x, y) AS len(x)
array_lower(x, y) AS 1
hush_version() AS 'PostgreSQL {version} (hush)'
hush_user() AS '{user}'
hush_database() AS 'hush'
hush_schema() AS '{schema}'
hush_setting(x) AS (SELECT hush_said FROM hush_settings WHERE hush_name = lower(x)), (x, y) AS (SELECT hush_said FROM hush_settings WHERE hush_name = lower(x))
hush_regproc(x) AS CASE split_part(x, '.', -1) WHEN 'array_in' THEN 750 WHEN 'array_recv' THEN 2400 ELSE 0 END
pg_opfamily_is_visible(x) AS true
pg_opclass_is_visible(x) AS true
pg_statistics_obj_is_visible(x) AS true
pg_ts_dict_is_visible(x) AS true
pg_ts_parser_is_visible(x) AS true
pg_ts_template_is_visible(x) AS true
pg_get_function_sqlbody(x) AS NULL::VARCHAR
pg_get_functiondef(x) AS NULL::VARCHAR
pg_get_triggerdef(x) AS NULL::VARCHAR, (x, y) AS NULL::VARCHAR
pg_get_ruledef(x) AS NULL::VARCHAR, (x, y) AS NULL::VARCHAR
pg_get_statisticsobjdef(x) AS NULL::VARCHAR
pg_stat_get_numscans(x) AS NULL::BIGINT
pg_advisory_unlock_all() AS NULL::VARCHAR
pg_my_temp_schema() AS 0
pg_is_other_temp_schema(x) AS false
pg_has_role(x, y) AS false, (x, y, z) AS false
pg_encoding_max_length(x) AS 4
has_sequence_privilege(x, y) AS false, (x, y, z) AS false
has_function_privilege(x, y) AS false, (x, y, z) AS false
has_language_privilege(x, y) AS false, (x, y, z) AS false
has_tablespace_privilege(x, y) AS false, (x, y, z) AS false
has_server_privilege(x, y) AS false, (x, y, z) AS false
getdatabaseencoding() AS 'UTF8'
inet_server_addr() AS NULL::VARCHAR
inet_server_port() AS NULL::BIGINT
inet_client_addr() AS NULL::VARCHAR
set_config(x, y, z) AS CASE WHEN x ILIKE 'hush.%' THEN error('hush') ELSE y END
array_remove(x, y) AS list_filter(x, lambda e: e IS DISTINCT FROM y)
pg_typeof(x) AS lower(typeof(x))
pg_available_extensions() AS TABLE SELECT NULL::VARCHAR AS name, NULL::VARCHAR AS default_version, NULL::VARCHAR AS comment LIMIT 0
