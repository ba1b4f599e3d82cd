;; Never comes back from the start function of its module: it loops before anything of it was called.
(func $forever (loop $again (br $again)))
(start $forever)
