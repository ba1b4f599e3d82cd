;; Gives the host address 0 for whatever it wants to hand over.
(func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 0))
