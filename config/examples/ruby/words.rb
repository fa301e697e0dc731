require 'json'

puts JSON.generate(gets.split.tally)
