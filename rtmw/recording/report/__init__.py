"""`rtmw report`: what recordings say of themselves, on one page. `build` begins; neither Spark nor Arrow is needed."""
