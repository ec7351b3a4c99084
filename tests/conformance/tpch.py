"""A small TPC-H: the tables of the specification with made-up rows, a policy for them, and the 22 questions.

The customer is the unit; nation, region, part, supplier and partsupp are public. The rows are drawn so that every
question finds some: ranges are narrower than those of the specification, words are its own.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

NATIONS = [
    ("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0), ("FRANCE", 3),
    ("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4),
    ("KENYA", 0), ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3), ("SAUDI ARABIA", 4),
    ("VIETNAM", 2), ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1),
]  # fmt: skip
REGIONS = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"]
PRIORITIES = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]
MODES = ["REG AIR", "AIR", "AIR REG", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]
INSTRUCTIONS = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"]
TYPES = ["PROMO ANODIZED TIN", "ECONOMY ANODIZED STEEL", "STANDARD POLISHED BRASS", "PROMO BURNISHED COPPER"]
CONTAINERS = ["SM CASE", "SM BOX", "MED BAG", "MED BOX", "LG CASE", "LG BOX"]
COLOURS = ["green", "forest", "almond", "blush"]
START, END = dt.date(1992, 1, 1), dt.date(1998, 12, 31)
CUSTOMERS, ORDERS, PARTS, SUPPLIERS = 40, 320, 30, 12
MONEY = pa.decimal128(12, 2)


def tables(seed: int = 1) -> dict[str, pa.Table]:
    """Return the eight tables."""
    dice = Random(seed)

    def money(low: float, high: float) -> Decimal:
        return Decimal(dice.randint(int(low * 100), int(high * 100))) / 100

    def made(columns: dict[str, pa.DataType], rows: list[tuple[object, ...]]) -> pa.Table:
        cells = zip(*rows, strict=True)
        return pa.table({name: pa.array(list(c), t) for (name, t), c in zip(columns.items(), cells, strict=True)})

    whole, text, day = pa.int64(), pa.string(), pa.date32()
    regions = [(at, name) for at, name in enumerate(REGIONS)]
    nations = [(at, name, region) for at, (name, region) in enumerate(NATIONS)]
    nearby = [6, 7, 2, 12, 18, 20, 3]  # few nations, so that questions about two of them find something
    suppliers = [(at, f"Supplier#{at}", dice.choice(nearby), money(-900, 9000)) for at in range(SUPPLIERS)]
    parts = [
        (
            at,
            f"{dice.choice(COLOURS)} {dice.choice(COLOURS)}",
            f"Brand#{dice.choice([12, 23, 34])}",
            dice.choice(TYPES),
            dice.choice([1, 5, 9, 14]),
            dice.choice(CONTAINERS),
        )
        for at in range(PARTS)
    ]
    stock = [
        (part, (part + 3 * at) % SUPPLIERS, dice.randint(1, 99), money(1, 100))
        for part in range(PARTS)
        for at in range(4)
    ]
    customers = [
        (
            at,
            f"Customer#{at}",
            dice.choice(nearby),
            f"{dice.randint(10, 34)}-555",
            money(-900, 9000),
            dice.choice(SEGMENTS),
        )
        for at in range(CUSTOMERS)
    ]
    orders, lines = [], []
    for key in range(ORDERS):
        ordered = START + dt.timedelta(days=dice.randrange((END - START).days - 160))
        comment = dice.choice(["fine", "special packing requests", "carefully", "special and quick requests"])
        orders.append(
            (
                key,
                dice.randrange(CUSTOMERS - 8),
                dice.choice("OFP"),
                money(100, 400_000),
                ordered,
                dice.choice(PRIORITIES),
                0,
                comment,
            )
        )
        for number in range(dice.randint(1, 6)):
            part, supplier, *_ = dice.choice(stock)
            shipped = ordered + dt.timedelta(days=dice.randint(1, 121))
            committed = ordered + dt.timedelta(days=dice.randint(30, 90))
            received = shipped + dt.timedelta(days=dice.randint(1, 30))
            lines.append(
                (
                    key, part, supplier, number, Decimal(dice.randint(1, 50)), money(900, 90_000),
                    Decimal(dice.randint(0, 10)) / 100, Decimal(dice.randint(0, 8)) / 100, dice.choice("RAN"),
                    dice.choice("OF"), shipped, committed, received, dice.choice(INSTRUCTIONS), dice.choice(MODES),
                )
            )  # fmt: skip
    return {
        "region": made({"r_regionkey": whole, "r_name": text}, regions),
        "nation": made({"n_nationkey": whole, "n_name": text, "n_regionkey": whole}, nations),
        "supplier": made({"s_suppkey": whole, "s_name": text, "s_nationkey": whole, "s_acctbal": MONEY}, suppliers),
        "part": made(
            {"p_partkey": whole, "p_name": text, "p_brand": text, "p_type": text, "p_size": whole, "p_container": text},
            parts,
        ),
        "partsupp": made(
            {"ps_partkey": whole, "ps_suppkey": whole, "ps_availqty": whole, "ps_supplycost": MONEY}, stock
        ),
        "customer": made(
            {
                "c_custkey": whole,
                "c_name": text,
                "c_nationkey": whole,
                "c_phone": text,
                "c_acctbal": MONEY,
                "c_mktsegment": text,
            },
            customers,
        ),
        "orders": made(
            {
                "o_orderkey": whole,
                "o_custkey": whole,
                "o_orderstatus": text,
                "o_totalprice": MONEY,
                "o_orderdate": day,
                "o_orderpriority": text,
                "o_shippriority": whole,
                "o_comment": text,
            },
            orders,
        ),
        "lineitem": made(
            {
                "l_orderkey": whole,
                "l_partkey": whole,
                "l_suppkey": whole,
                "l_linenumber": whole,
                "l_quantity": MONEY,
                "l_extendedprice": MONEY,
                "l_discount": MONEY,
                "l_tax": MONEY,
                "l_returnflag": text,
                "l_linestatus": text,
                "l_shipdate": day,
                "l_commitdate": day,
                "l_receiptdate": day,
                "l_shipinstruct": text,
                "l_shipmode": text,
            },
            lines,
        ),
    }


POLICY = """
[data.tpch]
unit = "c_custkey"
budget = { epsilon = "1e17", delta = "0.5" }

[analysts.alice]
data = ["tpch"]
budget = { epsilon = "1e17", delta = "0.5" }

[data.tpch.tables.customer]
source = "customer.parquet"
columns.c_name = "text"
columns.c_nationkey = { type = "integer", lower = 0, upper = 24 }
columns.c_phone = "text"
columns.c_acctbal = { type = "decimal", lower = -1000, upper = 10000, step = "0.01" }
columns.c_mktsegment = { type = "text", values = SEGMENTS }

[data.tpch.tables.orders]
source = "orders.parquet"
unit = "o_custkey"
max_rows = 100
max_groups = 100
columns.o_orderstatus = { type = "text", values = ["O", "F", "P"] }
columns.o_totalprice = { type = "decimal", lower = 0, upper = 600000, step = "0.01" }
columns.o_orderdate = { type = "date", lower = 1992-01-01, upper = 1998-12-31 }
columns.o_orderpriority = { type = "text", values = PRIORITIES }
columns.o_shippriority = { type = "integer", lower = 0, upper = 1 }
columns.o_comment = "text"

[data.tpch.tables.lineitem]
source = "lineitem.parquet"
unit = "orders.o_custkey via l_orderkey = o_orderkey"
max_rows = 300
max_groups = 300
columns.l_partkey = "integer"
columns.l_suppkey = "integer"
columns.l_linenumber = { type = "integer", lower = 0, upper = 7 }
columns.l_quantity = { type = "decimal", lower = 0, upper = 50, step = "0.01" }
columns.l_extendedprice = { type = "decimal", lower = 0, upper = 100000, step = "0.01" }
columns.l_discount = { type = "decimal", lower = 0, upper = "0.1", step = "0.01" }
columns.l_tax = { type = "decimal", lower = 0, upper = "0.08", step = "0.01" }
columns.l_returnflag = { type = "text", values = ["R", "A", "N"] }
columns.l_linestatus = { type = "text", values = ["O", "F"] }
columns.l_shipdate = { type = "date", lower = 1992-01-01, upper = 1999-12-31 }
columns.l_commitdate = { type = "date", lower = 1992-01-01, upper = 1999-12-31 }
columns.l_receiptdate = { type = "date", lower = 1992-01-01, upper = 1999-12-31 }
columns.l_shipinstruct = "text"
columns.l_shipmode = { type = "text", values = MODES }
"""


def written(directory: Path, made: dict[str, pa.Table]) -> Path:
    """Write the tables and their policy into a directory, and return the policy's path."""
    for name, table in made.items():
        pq.write_table(table, directory / f"{name}.parquet")
    text = POLICY
    for word, values in (("SEGMENTS", SEGMENTS), ("PRIORITIES", PRIORITIES), ("MODES", MODES)):
        text = text.replace(f"= {word}", f"= {values}".replace("'", '"'))
    for name in ("nation", "region", "part", "supplier", "partsupp"):
        text += f'\n[data.tpch.tables.{name}]\nsource = "{name}.parquet"\npublic = true\n'
    path = directory / "hush.toml"
    path.write_text(text)
    return path


QUESTIONS = {
    1: """
select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty, sum(l_extendedprice) as sum_base_price,
  sum(l_extendedprice * (1 - l_discount)) as sum_disc_price,
  sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge,
  avg(l_quantity) as avg_qty, avg(l_extendedprice) as avg_price, avg(l_discount) as avg_disc, count(*) as count_order
from lineitem where l_shipdate <= date '1998-12-01' - interval '90' day
group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus""",
    3: """
select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate, o_shippriority
from customer, orders, lineitem
where c_mktsegment = 'BUILDING' and c_custkey = o_custkey and l_orderkey = o_orderkey
  and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
group by l_orderkey, o_orderdate, o_shippriority order by revenue desc, o_orderdate limit 10""",
    4: """
select o_orderpriority, count(*) as order_count from orders
where o_orderdate >= date '1993-07-01' and o_orderdate < date '1993-07-01' + interval '24' month
  and exists (select * from lineitem where l_orderkey = o_orderkey and l_commitdate < l_receiptdate)
group by o_orderpriority order by o_orderpriority""",
    5: """
select n_name, sum(l_extendedprice * (1 - l_discount)) as revenue
from customer, orders, lineitem, supplier, nation, region
where c_custkey = o_custkey and l_orderkey = o_orderkey and l_suppkey = s_suppkey and c_nationkey = s_nationkey
  and s_nationkey = n_nationkey and n_regionkey = r_regionkey and r_name = 'EUROPE'
  and o_orderdate >= date '1993-01-01' and o_orderdate < date '1993-01-01' + interval '3' year
group by n_name order by revenue desc""",
    6: """
select sum(l_extendedprice * l_discount) as revenue from lineitem
where l_shipdate >= date '1994-01-01' and l_shipdate < date '1994-01-01' + interval '1' year
  and l_discount between 0.06 - 0.01 and 0.06 + 0.01 and l_quantity < 24""",
    7: """
select supp_nation, cust_nation, l_year, sum(volume) as revenue
from (
  select n1.n_name as supp_nation, n2.n_name as cust_nation, extract(year from l_shipdate) as l_year,
    l_extendedprice * (1 - l_discount) as volume
  from supplier, lineitem, orders, customer, nation n1, nation n2
  where s_suppkey = l_suppkey and o_orderkey = l_orderkey and c_custkey = o_custkey and s_nationkey = n1.n_nationkey
    and c_nationkey = n2.n_nationkey
    and ((n1.n_name = 'FRANCE' and n2.n_name = 'GERMANY') or (n1.n_name = 'GERMANY' and n2.n_name = 'FRANCE'))
    and l_shipdate between date '1995-01-01' and date '1996-12-31') as shipping
group by supp_nation, cust_nation, l_year order by supp_nation, cust_nation, l_year""",
    8: """
select o_year, sum(case when nation = 'BRAZIL' then volume else 0 end) / sum(volume) as mkt_share
from (
  select extract(year from o_orderdate) as o_year, l_extendedprice * (1 - l_discount) as volume, n2.n_name as nation
  from part, supplier, lineitem, orders, customer, nation n1, nation n2, region
  where p_partkey = l_partkey and s_suppkey = l_suppkey and l_orderkey = o_orderkey and o_custkey = c_custkey
    and c_nationkey = n1.n_nationkey and n1.n_regionkey = r_regionkey and r_name = 'EUROPE'
    and s_nationkey = n2.n_nationkey and o_orderdate between date '1995-01-01' and date '1996-12-31'
    and p_type = 'ECONOMY ANODIZED STEEL') as all_nations
group by o_year order by o_year""",
    9: """
select nation, o_year, sum(amount) as sum_profit
from (
  select n_name as nation, extract(year from o_orderdate) as o_year,
    l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity as amount
  from part, supplier, lineitem, partsupp, orders, nation
  where s_suppkey = l_suppkey and ps_suppkey = l_suppkey and ps_partkey = l_partkey and p_partkey = l_partkey
    and o_orderkey = l_orderkey and s_nationkey = n_nationkey and p_name like '%green%') as profit
group by nation, o_year order by nation, o_year desc""",
    10: """
select c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) as revenue, c_acctbal, n_name, c_phone
from customer, orders, lineitem, nation
where c_custkey = o_custkey and l_orderkey = o_orderkey and o_orderdate >= date '1993-10-01'
  and o_orderdate < date '1993-10-01' + interval '3' month and l_returnflag = 'R' and c_nationkey = n_nationkey
group by c_custkey, c_name, c_acctbal, c_phone, n_name order by revenue desc limit 20""",
    12: """
select l_shipmode,
  sum(case when o_orderpriority = '1-URGENT' or o_orderpriority = '2-HIGH' then 1 else 0 end) as high_line_count,
  sum(case when o_orderpriority <> '1-URGENT' and o_orderpriority <> '2-HIGH' then 1 else 0 end) as low_line_count
from orders, lineitem
where o_orderkey = l_orderkey and l_shipmode in ('MAIL', 'SHIP') and l_commitdate < l_receiptdate
  and l_shipdate < l_commitdate and l_receiptdate >= date '1994-01-01'
  and l_receiptdate < date '1994-01-01' + interval '1' year
group by l_shipmode order by l_shipmode""",
    13: """
select c_count, count(*) as custdist
from (
  select c_custkey, count(o_orderkey) from customer left outer join orders on c_custkey = o_custkey
    and o_comment not like '%special%requests%'
  group by c_custkey) as c_orders (c_custkey, c_count)
group by c_count order by custdist desc, c_count desc""",
    14: """
select 100.00 * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount) else 0 end)
  / sum(l_extendedprice * (1 - l_discount)) as promo_revenue
from lineitem, part
where l_partkey = p_partkey and l_shipdate >= date '1995-09-01'
  and l_shipdate < date '1995-09-01' + interval '1' month""",
    17: """
select sum(l_extendedprice) / 7.0 as avg_yearly from lineitem, part
where p_partkey = l_partkey and p_brand = 'Brand#23' and p_container = 'MED BOX'
  and l_quantity < (select 0.2 * avg(l_quantity) from lineitem where l_partkey = p_partkey)""",
    18: """
select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)
from customer, orders, lineitem
where o_orderkey in (select l_orderkey from lineitem group by l_orderkey having sum(l_quantity) > 100)
  and c_custkey = o_custkey and o_orderkey = l_orderkey
group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice order by o_totalprice desc, o_orderdate limit 100""",
    19: """
select sum(l_extendedprice * (1 - l_discount)) as revenue from lineitem, part
where (p_partkey = l_partkey and p_brand = 'Brand#12' and p_container in ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
    and l_quantity >= 1 and l_quantity <= 1 + 30 and p_size between 1 and 5
    and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON')
  or (p_partkey = l_partkey and p_brand = 'Brand#23' and p_container in ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
    and l_quantity >= 10 and l_quantity <= 10 + 30 and p_size between 1 and 10
    and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON')
  or (p_partkey = l_partkey and p_brand = 'Brand#34' and p_container in ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
    and l_quantity >= 20 and l_quantity <= 20 + 30 and p_size between 1 and 15
    and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON')""",
    22: """
select cntrycode, count(*) as numcust, sum(c_acctbal) as totacctbal
from (
  select substring(c_phone from 1 for 2) as cntrycode, c_acctbal from customer
  where substring(c_phone from 1 for 2) in ('13', '31', '23', '29', '30', '18', '17')
    and c_acctbal > (
      select avg(c_acctbal) from customer
      where c_acctbal > 0.00 and substring(c_phone from 1 for 2) in ('13', '31', '23', '29', '30', '18', '17'))
    and not exists (select * from orders where o_custkey = c_custkey)) as custsale
group by cntrycode order by cntrycode""",
}
"""Those that read the customers' rows, as the specification writes them; 2, 11 and 16 read public tables alone."""
