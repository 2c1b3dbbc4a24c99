"""Stage `report`: one page that shows what a run did and what it gained."""
