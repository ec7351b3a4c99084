-- The rows of the system catalogue, made of tables that the service fills: types, schemas, tables with their columns,
-- people and settings. A macro takes names from where it is called, so theirs are names that nobody else has.
CREATE TABLE hush_types (hush_type BIGINT, hush_short VARCHAR, hush_shown VARCHAR, hush_size INTEGER,
    hush_category VARCHAR, hush_list BIGINT);
CREATE TABLE hush_schemas (hush_place BIGINT, hush_schema VARCHAR);
CREATE TABLE hush_classes (hush_class BIGINT, hush_schema VARCHAR, hush_table VARCHAR, hush_count INTEGER);
CREATE TABLE hush_columns (hush_class BIGINT, hush_position INTEGER, hush_column VARCHAR, hush_type BIGINT);
CREATE TABLE hush_settings (hush_name VARCHAR, hush_said VARCHAR)

INSERT INTO pg_namespace BY NAME SELECT hush_place AS oid, hush_schema AS nspname, 10 AS nspowner FROM hush_schemas;
INSERT INTO is_schemata BY NAME
    SELECT 'hush' AS catalog_name, hush_schema AS schema_name, 'hush' AS schema_owner FROM hush_schemas;
INSERT INTO pg_type BY NAME
    SELECT kind.hush_type AS oid, kind.hush_short AS typname, kind.hush_size AS typlen, kind.hush_list AS typarray,
        kind.hush_category AS typcategory, if(kind.hush_category = 'P', 'p', 'b') AS typtype,
        coalesce(element.hush_type, 0) AS typelem, if(element.hush_type IS NULL, 0, 750) AS typinput,
        if(element.hush_type IS NULL, 0, 2400) AS typreceive, if(kind.hush_category = 'S', 100, 0) AS typcollation,
        kind.hush_size BETWEEN 1 AND 8 AS typbyval,
        kind.hush_short IN ('text', 'bool', 'float8', 'oid', 'timestamptz') AS typispreferred,
        11 AS typnamespace, 10 AS typowner, true AS typisdefined, ',' AS typdelim, -1 AS typtypmod, 0 AS typrelid,
        0 AS typbasetype, 0 AS typndims, false AS typnotnull
    FROM hush_types kind LEFT JOIN hush_types element ON element.hush_list = kind.hush_type AND kind.hush_type > 0
    ORDER BY kind.rowid;
INSERT INTO pg_class BY NAME
    SELECT hush_class AS oid, hush_table AS relname, hush_place AS relnamespace, hush_count AS relnatts,
        10 AS relowner, 2 AS relam, 'r' AS relkind, 'p' AS relpersistence, 'd' AS relreplident, -1.0 AS reltuples,
        ['=r/hush'] AS relacl, 0 AS reltype, 0 AS reloftype, 0 AS relchecks, 0 AS reltablespace, 0 AS reltoastrelid,
        0 AS relpages, false AS relhasindex, false AS relhasrules, false AS relhastriggers, false AS relrowsecurity,
        false AS relforcerowsecurity, false AS relispartition, false AS relhassubclass
    FROM hush_classes JOIN hush_schemas USING (hush_schema) ORDER BY oid;
INSERT INTO pg_tables BY NAME
    SELECT hush_schema AS schemaname, hush_table AS tablename, 'hush' AS tableowner FROM hush_classes;
INSERT INTO is_tables BY NAME
    SELECT 'hush' AS table_catalog, hush_schema AS table_schema, hush_table AS table_name, 'BASE TABLE' AS table_type,
        'NO' AS is_insertable_into
    FROM hush_classes;
INSERT INTO pg_attribute BY NAME
    SELECT hush_class AS attrelid, hush_column AS attname, hush_type AS atttypid, hush_size AS attlen,
        hush_position AS attnum, -1 AS atttypmod, false AS attnotnull, 0 AS attcollation, false AS atthasdef,
        false AS attisdropped, '' AS attidentity, '' AS attgenerated
    FROM hush_columns JOIN hush_types USING (hush_type) ORDER BY attrelid, attnum;
INSERT INTO is_columns BY NAME
    SELECT 'hush' AS table_catalog, hush_schema AS table_schema, hush_table AS table_name, hush_column AS column_name,
        hush_position AS ordinal_position, hush_shown AS data_type, hush_short AS udt_name, 'hush' AS udt_catalog,
        'pg_catalog' AS udt_schema, 'YES' AS is_nullable, 'NO' AS is_updatable, 'NO' AS is_identity,
        'NEVER' AS is_generated
    FROM hush_columns JOIN hush_types USING (hush_type) JOIN hush_classes USING (hush_class)
    ORDER BY hush_class, ordinal_position;
INSERT INTO pg_database BY NAME
    SELECT 1 AS oid, 'hush' AS datname, 10 AS datdba, 6 AS encoding, true AS datallowconn, false AS datistemplate;
INSERT INTO pg_roles BY NAME
    SELECT role AS oid, name AS rolname, name = '{user}' AS rolcanlogin, true AS rolinherit, -1 AS rolconnlimit,
        false AS rolsuper, false AS rolcreaterole, false AS rolcreatedb, false AS rolreplication, false AS rolbypassrls
    FROM (VALUES (10, 'hush'), (11, '{user}')) roles(role, name) WHERE role = 10 OR name <> 'hush';
INSERT INTO pg_user BY NAME
    SELECT rolname AS usename, oid AS usesysid, false AS usesuper, false AS usecreatedb FROM pg_roles;
INSERT INTO pg_am BY NAME SELECT 2 AS oid, 'heap' AS amname, 't' AS amtype;
INSERT INTO pg_settings BY NAME SELECT hush_name AS name, hush_said AS setting FROM hush_settings
