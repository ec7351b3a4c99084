import java.sql.Array;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

/**
 * What tools do with the official JDBC driver. Each step prints its name, and what it gave or the error's state and text.
 * Started as: java -cp postgresql.jar Jdbc.java URL TOKEN
 */
public class Jdbc {
    interface Step {
        String take() throws Exception;
    }

    static void step(String name, Step step) {
        String result;
        try {
            result = step.take();
        } catch (SQLException error) {
            result = "ERROR " + error.getSQLState() + " " + error.getMessage();
        } catch (Exception error) {
            result = "ERROR " + error;
        }
        System.out.println(name + "\t" + result.replace("\n", " "));
    }

    /** The rows of a result: columns apart by a comma, rows by a bar. */
    static String rows(ResultSet result, String... columns) throws SQLException {
        List<String> rows = new ArrayList<>();
        ResultSetMetaData described = result.getMetaData();
        while (result.next()) {
            List<String> cells = new ArrayList<>();
            for (int at = 1; at <= described.getColumnCount(); at++) {
                String label = described.getColumnLabel(at);
                if (columns.length == 0 || List.of(columns).contains(label)) {
                    cells.add(String.valueOf(result.getString(at)));
                }
            }
            rows.add(String.join(",", cells));
        }
        result.close();
        return String.join("|", rows);
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("user", "alice");
        properties.setProperty("password", arguments[1]);
        try (Connection connection = DriverManager.getConnection(arguments[0], properties)) {
            catalogue(connection.getMetaData());
            questions(connection);
            transactions(connection);
            refusals(connection);
            cancel(connection);
            step("lives", () -> rows(connection.createStatement().executeQuery("SELECT 1")));
        }
    }

    static void catalogue(DatabaseMetaData about) {
        step("product", () -> about.getDatabaseProductName() + " " + about.getDatabaseProductVersion());
        step("user", about::getUserName);
        step("readonly", () -> String.valueOf(about.isReadOnly()));
        step("catalogs", () -> rows(about.getCatalogs()));
        step("schemas", () -> rows(about.getSchemas(), "TABLE_SCHEM"));
        step("some schemas", () -> rows(about.getSchemas(null, "cl%"), "TABLE_SCHEM"));
        step("table types", () -> String.valueOf(rows(about.getTableTypes()).contains("TABLE")));
        step("tables", () -> rows(
            about.getTables(null, "%", "%", new String[] {"TABLE", "VIEW", "MATERIALIZED VIEW", "FOREIGN TABLE", "PARTITIONED TABLE"}),
            "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE"));
        step("all tables", () -> rows(about.getTables(null, "clinic", null, null), "TABLE_NAME"));
        step("columns", () -> rows(
            about.getColumns(null, "clinic", "visits", null), "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "NULLABLE", "ORDINAL_POSITION"));
        step("primary keys", () -> rows(about.getPrimaryKeys(null, "clinic", "visits")));
        step("imported keys", () -> rows(about.getImportedKeys(null, "clinic", "visits")));
        step("exported keys", () -> rows(about.getExportedKeys(null, "clinic", "visits")));
        step("cross reference", () -> rows(about.getCrossReference(null, "clinic", "visits", null, "clinic", "visits")));
        step("indexes", () -> rows(about.getIndexInfo(null, "clinic", "visits", false, true)));
        step("best row", () -> rows(about.getBestRowIdentifier(null, "clinic", "visits", DatabaseMetaData.bestRowSession, true)));
        step("version columns", () -> rows(about.getVersionColumns(null, "clinic", "visits")));
        step("types", () -> rows(about.getTypeInfo(), "TYPE_NAME", "DATA_TYPE"));
        step("own types", () -> rows(about.getUDTs(null, "%", "%", null)));
        step("functions", () -> rows(about.getFunctions(null, "%", "%")));
        step("function columns", () -> rows(about.getFunctionColumns(null, "%", "%", "%")));
        step("procedures", () -> rows(about.getProcedures(null, "%", "%")));
        step("procedure columns", () -> rows(about.getProcedureColumns(null, "%", "%", "%")));
        step("table privileges", () -> rows(about.getTablePrivileges(null, "clinic", "visits"), "GRANTEE", "PRIVILEGE"));
        step("column privileges", () -> rows(about.getColumnPrivileges(null, "clinic", "visits", "%"), "COLUMN_NAME", "PRIVILEGE"));
        step("client info", () -> rows(about.getClientInfoProperties(), "NAME"));
        step("keywords", () -> String.valueOf(about.getSQLKeywords() != null));
        step("longest name", () -> String.valueOf(about.getMaxColumnNameLength()));
        step("transactions", () -> String.valueOf(about.supportsTransactions()));
        step("default isolation", () -> String.valueOf(about.getDefaultTransactionIsolation()));
    }

    static void questions(Connection connection) throws SQLException {
        Statement plain = connection.createStatement();
        step("digits", () -> String.valueOf(plain.execute("SET extra_float_digits = 3")));
        step("application", () -> {
            connection.setClientInfo("ApplicationName", "A tool");
            return "" + plain.execute("SET application_name = 'A tool''s name'");
        });
        step("schema", connection::getSchema);
        step("set schema", () -> {
            connection.setSchema("clinic");
            return connection.getSchema();
        });
        step("catalog", connection::getCatalog);
        step("valid", () -> String.valueOf(connection.isValid(10)));
        step("network timeout", () -> {
            connection.setNetworkTimeout(Runnable::run, 60_000);
            return String.valueOf(connection.getNetworkTimeout());
        });
        step("isolation", () -> String.valueOf(connection.getTransactionIsolation()));
        step("set isolation", () -> {
            connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
            return String.valueOf(connection.getTransactionIsolation());
        });
        step("read only", () -> {
            connection.setReadOnly(true);
            return String.valueOf(connection.isReadOnly());
        });
        step("price", () -> String.valueOf(plain.execute("SET hush.epsilon = '0.5'")));
        step("warnings", () -> {
            rows(plain.executeQuery("SELECT COUNT(*) AS n FROM visits"));
            return plain.getWarnings().getMessage();
        });
        step("described", () -> {
            try (PreparedStatement prepared = connection.prepareStatement("SELECT city, COUNT(*) AS n FROM visits WHERE age >= ? GROUP BY city")) {
                ResultSetMetaData described = prepared.getMetaData();
                return described.getColumnCount() + " " + described.getColumnLabel(2) + " " + described.getColumnTypeName(2)
                    + " " + prepared.getParameterMetaData().getParameterCount();
            }
        });
        step("prepared", () -> {
            List<String> counts = new ArrayList<>();
            String question = "SELECT city, COUNT(*) AS n, AVG(age) AS m FROM visits WHERE age >= ? AND age < ? AND city <> ? AND day >= ? GROUP BY city";
            try (PreparedStatement prepared = connection.prepareStatement(question)) {
                for (int round = 0; round < 9; round++) {
                    prepared.setInt(1, 20);
                    prepared.setDouble(2, 70.5);
                    prepared.setString(3, "nowhere");
                    prepared.setDate(4, Date.valueOf("2025-01-01"));
                    try (ResultSet result = prepared.executeQuery()) {
                        StringBuilder groups = new StringBuilder();
                        while (result.next()) {
                            groups.append(result.getString("city")).append(result.getLong("n")).append(result.getDouble("n_error"));
                            groups.append(result.getObject("m"));
                        }
                        counts.add(groups.toString());  // the same in text and in binary, since asked again it is the same answer
                    }
                }
            }
            return counts.size() + " " + new java.util.HashSet<>(counts).size() + " " + counts.get(0).contains("Oslo");
        });
        step("prepared catalogue", () -> {
            List<String> found = new ArrayList<>();
            try (PreparedStatement prepared = connection.prepareStatement(
                    "SELECT c.oid, c.relname, a.attnum, a.attnotnull FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a"
                    + " ON a.attrelid = c.oid WHERE c.relname = ? AND a.attnum > ? ORDER BY a.attnum")) {
                for (int round = 0; round < 9; round++) {
                    prepared.setString(1, "visits");
                    prepared.setInt(2, 0);
                    try (ResultSet result = prepared.executeQuery()) {
                        int columns = 0;
                        while (result.next()) {
                            columns += result.getLong("oid") > 0 && result.getInt("attnum") > 0 && !result.getBoolean("attnotnull") ? 1 : 0;
                        }
                        found.add(String.valueOf(columns));
                    }
                }
            }
            return String.join(",", found);
        });
        step("dates", () -> {
            try (PreparedStatement prepared = connection.prepareStatement("SELECT MAX(day) AS last FROM visits WHERE day < ?")) {
                String year = "";
                for (int round = 0; round < 7; round++) {
                    prepared.setTimestamp(1, Timestamp.valueOf("2026-01-01 00:00:00"));
                    ResultSet result = prepared.executeQuery();
                    result.next();
                    year = result.getDate("last").toString().substring(0, 4);
                }
                return year;
            }
        });
        step("other types", () -> {
            try (PreparedStatement prepared = connection.prepareStatement(
                    "SELECT COUNT(*) AS n FROM visits WHERE age > ? AND age < ? AND age <> ? AND age <> ? AND ? = city")) {
                prepared.setLong(1, 1L);
                prepared.setBigDecimal(2, new java.math.BigDecimal("99.25"));
                prepared.setShort(3, (short) 7);
                prepared.setFloat(4, 7.5f);
                prepared.setObject(5, "Oslo");
                return String.valueOf(rows(prepared.executeQuery()).split(",").length);
            }
        });
        step("comment", () -> String.valueOf(
            rows(plain.executeQuery("/* hush.epsilon = 0.25 */ SELECT COUNT(*) AS n FROM visits")).split(",").length));
        step("several", () -> {
            boolean more = plain.execute("SET hush.epsilon = '0.125'; SELECT COUNT(*) AS n FROM visits");
            return more + " " + plain.getUpdateCount() + " " + plain.getMoreResults() + " " + rows(plain.getResultSet()).split(",").length;
        });
        step("explain", () -> String.valueOf(rows(plain.executeQuery("EXPLAIN SELECT COUNT(*) AS n FROM visits")).length() > 20));
        step("most rows", () -> {
            plain.setMaxRows(2);
            String found = rows(plain.executeQuery("SELECT city, COUNT(*) AS n FROM visits GROUP BY city"));
            plain.setMaxRows(0);
            return String.valueOf(found.split("\\|").length);
        });
        step("no rows", () -> {
            try (PreparedStatement prepared = connection.prepareStatement("SELECT relname FROM pg_catalog.pg_class WHERE relname = ?")) {
                prepared.setNull(1, java.sql.Types.VARCHAR);
                return "[" + rows(prepared.executeQuery()) + "]";
            }
        });
    }

    static void transactions(Connection connection) throws SQLException {
        step("cursor", () -> {
            connection.setAutoCommit(false);
            try (PreparedStatement prepared = connection.prepareStatement("SELECT city, COUNT(*) AS n FROM visits GROUP BY city")) {
                prepared.setFetchSize(2);
                int groups = rows(prepared.executeQuery()).split("\\|").length;
                connection.commit();
                return String.valueOf(groups);
            } finally {
                connection.setAutoCommit(true);
            }
        });
        step("cursor of the catalogue", () -> {
            connection.setAutoCommit(false);
            try (Statement statement = connection.createStatement()) {
                statement.setFetchSize(3);
                int types = rows(statement.executeQuery("SELECT typname FROM pg_catalog.pg_type")).split("\\|").length;
                connection.rollback();
                return String.valueOf(types > 3);
            } finally {
                connection.setAutoCommit(true);
            }
        });
        step("savepoint", () -> {
            connection.setAutoCommit(false);
            try (Statement statement = connection.createStatement()) {
                java.sql.Savepoint point = connection.setSavepoint("here");
                rows(statement.executeQuery("SELECT 1"));
                connection.rollback(point);
                connection.releaseSavepoint(connection.setSavepoint());
                connection.commit();
                return "taken";
            } finally {
                connection.setAutoCommit(true);
            }
        });
        step("failed transaction", () -> {
            connection.setAutoCommit(false);
            try (Statement statement = connection.createStatement()) {
                String state = "";
                try {
                    statement.executeQuery("SELECT age FROM visits");
                } catch (SQLException error) {
                    state = error.getSQLState();
                }
                connection.rollback();
                return state.substring(0, 2) + " " + rows(statement.executeQuery("SELECT 1"));
            } finally {
                connection.setAutoCommit(true);
            }
        });
    }

    static void refusals(Connection connection) throws SQLException {
        String[] statements = {
            "{call pg_sleep(1)}", "{? = call pg_read_file(?)}", "{fn user()}", "{call lo_import('/etc/passwd')}",
        };
        step("escape call", () -> {
            List<String> states = new ArrayList<>();
            for (String text : statements) {
                try (java.sql.CallableStatement call = connection.prepareCall(text)) {
                    if (text.startsWith("{?")) {
                        call.registerOutParameter(1, java.sql.Types.VARCHAR);
                        call.setString(2, "/etc/passwd");
                    }
                    call.execute();
                    states.add("taken");
                } catch (SQLException error) {
                    states.add(error.getSQLState());
                }
            }
            return String.join(",", states);
        });
        step("update", () -> String.valueOf(connection.createStatement().executeUpdate("DELETE FROM visits")));
        step("batch", () -> {
            try (PreparedStatement prepared = connection.prepareStatement("INSERT INTO visits (age) VALUES (?)")) {
                prepared.setInt(1, 1);
                prepared.addBatch();
                prepared.setInt(1, 2);
                prepared.addBatch();
                return String.valueOf(prepared.executeBatch().length);
            }
        });
        step("copy out", () -> {
            org.postgresql.PGConnection own = connection.unwrap(org.postgresql.PGConnection.class);
            return "" + own.getCopyAPI().copyOut("COPY visits TO STDOUT", new java.io.ByteArrayOutputStream());
        });
        step("copy in", () -> {
            org.postgresql.PGConnection own = connection.unwrap(org.postgresql.PGConnection.class);
            return "" + own.getCopyAPI().copyIn("COPY visits FROM STDIN", new java.io.StringReader("1"));
        });
        step("large object", () -> {
            connection.setAutoCommit(false);
            try {
                org.postgresql.PGConnection own = connection.unwrap(org.postgresql.PGConnection.class);
                return "" + own.getLargeObjectAPI().createLO();
            } finally {
                connection.rollback();
                connection.setAutoCommit(true);
            }
        });
        step("fast path", () -> {
            org.postgresql.PGConnection own = connection.unwrap(org.postgresql.PGConnection.class);
            @SuppressWarnings("deprecation")
            long given = own.getFastpathAPI().getInteger("pg_backend_pid", new org.postgresql.fastpath.FastpathArg[0]);
            return "" + given;
        });
        step("notifications", () -> {
            org.postgresql.PGConnection own = connection.unwrap(org.postgresql.PGConnection.class);
            connection.createStatement().execute("LISTEN rows");
            return "" + own.getNotifications().length;
        });
        step("array", () -> {
            Array values = connection.createArrayOf("text", new String[] {"visits"});
            try (PreparedStatement prepared = connection.prepareStatement("SELECT relname FROM pg_catalog.pg_class WHERE relname = ANY (?)")) {
                prepared.setArray(1, values);
                return rows(prepared.executeQuery());
            }
        });
    }

    static void cancel(Connection connection) {
        step("cancel nothing", () -> {
            connection.createStatement().cancel();
            return "taken";
        });
        step("query timeout", () -> {
            try (Statement statement = connection.createStatement()) {
                statement.setQueryTimeout(30);
                return String.valueOf(rows(statement.executeQuery("SELECT 1")));
            }
        });
    }
}
