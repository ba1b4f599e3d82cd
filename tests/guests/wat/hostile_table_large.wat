;; Declares a table larger than a table may be.
(table 20000 funcref)
